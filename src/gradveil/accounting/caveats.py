"""The sentences that belong to an epsilon: what it assumes, or why none is finite."""

NO_NOISE = "Nothing hides a unit: no noise is added, or units are not clipped."
DATA_DEPENDENT = (
    "The noise is scaled to the private gradients (l2-max), so its variance reveals them at any sigma; "
    "see docs/soundness.md."
)
UNSOUND_CLIP = "The clip declares (sound = False) that its bound follows private values, so no noise is large enough."
RAW_AT_SERVER = "Noise is added only at the server, which sees every update without it."
RAW_COUNT = "The clip's counts reach the server without noise; only their sum is noised."
RAW_IN_CLIENT = "Noise is added only after local training, so the gradients inside a client are not protected."
IN_MEMORY = (
    "Un-noised example gradients exist in the client's memory until they are summed; an adversary who reads that "
    "memory is not covered."
)
NOT_HIDDEN = (
    "Secret cohort sampling amplifies nothing here: the models may reveal whether a client participated, by its other "
    "records or by the noise that it adds."
)
OWN_NOISE = (
    "A client that is left out is assumed to send its noise and nothing else; that it is missing altogether, noise "
    "included, may be noticed."
)
REPLACEMENT = "Sampling with replacement may put a record into a batch B times, which is assumed here."
CUT = (
    "delta is smaller than the chance that one of the Poisson batches is truncated (1e-15 each), so no finite epsilon "
    "holds."
)
NOISE_ENDS = (
    "There is so little noise that its cut-off at 9 standard deviations may reveal a unit, so no finite epsilon holds."
)
UNKNOWN_BATCH = "How many records of a client a batch can hold is not known: give the batch size or the client's size."
COPIES = "Some records are held by several clients; every copy is counted."
PRESUMED = (
    "assumes that a round without the client looks like a round without the record, which is false if the client has "
    "other records; not a guarantee"
)
CENTRAL_IS_NO_TARGET = (
    "that a secret cohort hides a single example is assumed, not proved; use central-visible, which is proved"
)


def trusted(parts: tuple[str, ...]) -> str:
    """Name the custom parts whose claims were not proved."""
    return f"Custom parts were trusted, not proved: {', '.join(parts)}. It holds only if they do as they declare."
