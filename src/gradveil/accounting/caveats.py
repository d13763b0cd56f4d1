"""The sentences that belong to an epsilon: what it assumes, and why none is finite."""

from gradveil.accounting.release import Release

NO_NOISE = "No noise is added, or gradients are not clipped."
DATA_DEPENDENT = (
    "The noise is scaled to private gradient norms (l2-max), so its variance leaks them at any sigma; "
    "see docs/soundness.md."
)
UNSOUND_CLIP = "The clip declares that its bound is learned from private values, so no noise is large enough."
RAW_AT_SERVER = "The server adds the noise, so it sees every update without noise."
RAW_COUNT = "The server receives the adaptive clip's counts without noise; noise is added only to their sum."
RAW_IN_CLIENT = "Noise is added only after local training, so gradients inside a client are unprotected."
NO_SUMS = (
    "That only sums over clients are seen lowers nothing here: it is proven only for cohorts of a fixed size, batches "
    "without a draw and one local step."
)
IN_MEMORY = (
    "Gradients without noise exist in the client's memory until they are summed; reading them there is not covered."
)
NOT_HIDDEN = (
    "Secret sampling of clients lowers epsilon only where it is proven to: here a client's other records or its own "
    "noise may show in the models whether it took part."
)
OWN_NOISE = (
    "Neighbors are zero-out: a client that is left out still adds its noise and contributes zero; that it is absent, "
    "noise included, may be seen."
)
REPLACEMENT = "Sampling with replacement may put a record into a batch B times; that worst case is assumed."
CUT = "delta is smaller than the chance that a random batch is truncated (1e-15 per batch), so no epsilon can be given."
NOISE_ENDS = (
    "Too little noise: samples are truncated at 9 standard deviations, and the probability of noticing that exceeds "
    "delta."
)
COARSE = (
    "The errors of the sampler of discrete noise do not fit into delta, or how many numbers are drawn is not known."
)
UNKNOWN_BATCH = "How many records of a client a batch can hold is unknown: give the batch size or the client's size."
COPIES = "Some records are held by several clients; every copy is counted."
PRESUMED = (
    "presumes that a round without the client looks like a round without the record, which the client's other records "
    "contradict; not a guarantee"
)
CENTRAL_IS_NO_TARGET = (
    "that secret sampling of clients hides a single example is presumed, not proven; use central-visible, which is"
)


def summed(release: Release) -> str:
    """Say whom a guarantee trusts that rests on the noise of several clients, or of the nodes of a secure sum."""
    if release.masked:
        return (
            f"Holds while at most {release.cohort - release.pool} of the {release.cohort} nodes of a sum work with the "
            "server (against more, the epsilon of `alone` holds), if every node made its own key and all compared the "
            "roster. It presumes X25519, ECDSA on P-384 and ChaCha20, and no outsider has reviewed the protocol."
        )
    return (
        f"Holds while only the sum over a round's clients is seen, as secure aggregation would see to (gradveil does "
        f"not encrypt updates), and while at least {release.pool} of {release.cohort} clients add their noise "
        "and keep it to themselves."
    )


def trusted(parts: tuple[str, ...]) -> str:
    """Name the parts whose claims were not proved."""
    return f"Your own parts were trusted, not proved: {', '.join(parts)}. If one breaks its claim, nothing holds."


def composed(trials: str) -> str:
    """Say that trials on the same records are counted, each as a release of its own."""
    return (
        f"Settings were chosen by {trials} trials on the same records; all that these released is counted, as if the "
        "adversary had seen every one. Further tuning is not covered."
    )


def best_of(mean: float) -> str:
    """Say what counting the best of several trials rests on."""
    return (
        f"Settings were chosen by trials on the same records, a secret number drawn with mean {mean:g}; that is "
        "counted as repeat-and-select (arXiv 2110.03620). It holds while nobody sees more of the trials than the "
        "settings that were chosen, not even how many there were. Further tuning is not covered."
    )
