"""How the paper's settings were read where it leaves a choice, in one sentence each."""

EXAMPLE = "noise sigma S once on the sum of a batch (as the authors' code), layers clipped to C, batches in fixed order"
SERVER = "the server noises the sum of K clipped updates by sigma C"
L2_MAX = "S = the largest clipped layer norm of the batch (the text's l2-max)"
PLAIN = "mean gradient, learning rate by a small search"
ATTACK = "fresh attack network, first local step, `released` view; success: clamped RMSE of at most 0.1"
UNCLAMPED = "fresh attack network, first local step, `released` view; RMSE of the guess as it is, outside [0, 1] too"
PAPER_RULE = "Y: unclamped RMSE of 0.6 or more for half of the victims; the paper states no rule"
USED_RATE = "q = B / |D_i| = 0.01 and T L steps, old conversion: the rule behind the printed figure, not a guarantee"
CLIENT_RATE = "q = K / N = 0.1 and T + 1 steps: the rule behind the printed figure, not a guarantee"
CYCLIC = "; cyclic decay stops at sigma 4.85 instead of 0"
STEP_SCHEDULE = "the schedules of epsilon in the authors' accounting code, stretched to T; not sigma 15 to 4.85"


def of(method: str) -> str:
    """Give the reading behind a method's training."""
    if method == "non-private":
        return PLAIN
    if method.startswith("fed-sdp"):
        return SERVER
    return f"{EXAMPLE}; {L2_MAX}" if method.startswith("fed-alpha") else EXAMPLE
