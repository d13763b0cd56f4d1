"""The sentences that belong to an epsilon: what it presumes, and why none is finite."""

NO_NOISE = "Nothing hides a unit: no noise is added, or units are not clipped."
DATA_DEPENDENT = (
    "The noise is scaled to the private gradients (l2-max), so its variance gives them away whatever sigma is; "
    "see docs/soundness.md."
)
UNSOUND_CLIP = "The clip says of itself that its bound is learned from private values, so no noise is large enough."
RAW_AT_SERVER = "Noise joins only at the server, which sees every update as it is."
RAW_COUNT = "The clip's counts reach the server without noise; only their sum is noised."
RAW_IN_CLIENT = "Noise joins only after local training, so what happens inside a client is bare."
IN_MEMORY = (
    "Un-noised example gradients exist in the client's memory until they are summed; who reads them is not covered."
)
NOT_HIDDEN = (
    "The secret draw of the cohort is given no credit here: whether a client took part may show in the models, by its "
    "other records or by the noise that it draws."
)
OWN_NOISE = (
    "A client that is left out is taken to draw its noise all the same and to contribute nothing; that it is missing "
    "altogether, noise included, may be seen."
)
REPLACEMENT = "Sampling with replacement may put a record into a batch B times, which is assumed here."
CUT = (
    "delta is smaller than the chance that one of the Poisson batches is truncated (1e-15 each), so nothing is covered."
)
NOISE_ENDS = (
    "There is so little noise that its end, 9 standard deviations out, may give a unit away: nothing is covered."
)
UNKNOWN_BATCH = "How many records of a client a batch can hold is not known: give the batch size or the client's size."
COPIES = "Some records are held by several clients; every copy is counted."
PRESUMED = (
    "presumes that a round without the client looks like a round without the record, which its other records refute; "
    "not a guarantee"
)
CENTRAL_IS_NO_TARGET = (
    "that a secret cohort hides a single example is presumed, not guaranteed; name central-visible, which holds"
)


def trusted(parts: tuple[str, ...]) -> str:
    """Name the parts whose claims were not proved."""
    return (
        f"Parts of your own were trusted, not proved: {', '.join(parts)}. If one does not do as it says, nothing holds."
    )
