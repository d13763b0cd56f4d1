"""What each key of the parts of a plan and of a schema means, by the name of the part."""

_NAME = "Name of the column in the first line of the table."
_MISSING = "What a missing value becomes: `zero` (0 in every feature), `flag` (that, and 1 in a feature of its own) or "
_MISSING += "`refuse`."
_C = "Clipping bound C, the largest L2 norm that is left."
_START = "Noise scale of the first round, sigma_0."
_END = "Noise scale reached at the end, sigma_T; in place of `gamma`."
_GAMMA = "The paper's rate of the decay; in place of `end`."
_PER = "Whether the noise scale changes from round to round or from local step to local step."
_OWN_LOW, _OWN_HIGH = "Least clipping bound of a unit.", "Largest clipping bound of a unit."
_SHARE = "Part of the budget that this round takes: its mu (of Gaussian differential privacy) over that of the run."
_K = "Number of features after the map."
_KEEP = "Number of frequencies kept along each axis."
_MIRROR = "Whether features are averaged over the picture and its mirror image."
_PICTURES = "Number of procedural pictures that it is computed from; no picture of the data is used."

PARTS = {
    "Method": {
        "name": "Name under which the method is reported.",
        "surface": "Where noise is added: to gradients in local training (`example`), to a client's update (`update`) "
        "or to the sum of updates (`server`).",
        "prune": "Which coordinates are set to zero first.",
        "clip": "How the norm of a unit (an example's gradient, or a client's update) is bounded.",
        "sensitivity": "What the noise is scaled to (S).",
        "noise": "The noise scale sigma over the rounds; the standard deviation is sigma S.",
        "draw": "What noise is added to: `each` clipped unit, their `sum` or their `mean`.",
        "share": "Whether the clients of a cohort share one noise: each draws a part of it.",
        "honest": "Fraction of a cohort that is honest and answers, whose noise counts; all unless given.",
    },
    "Smallest": {"mu": "Fraction of the coordinates that becomes zero."},
    "Dssgd": {
        "fraction": "Probability with which a large coordinate is shared.",
        "threshold": "Size above which a coordinate is large.",
        "bound": "Largest size of a coordinate that is shared.",
    },
    "PerLayer": {"c": "Clipping bound C of each layer (L2 norm)."},
    "Flat": {"c": _C},
    "OwnNorm": {"low": _OWN_LOW, "high": _OWN_HIGH},
    "Quantile": {
        "c": "Clipping bound C of the first round (L2 norm).",
        "gamma": "Fraction of units that should stay unclipped.",
        "eta": "Learning rate of ln C.",
        "count_noise": "Standard deviation of the noise on the fraction of unclipped units.",
    },
    "AdaClip": {
        "radius": "Clipping bound of whitened units (L2 norm).",
        "beta1": "How slowly the mean follows new gradients, between 0 and 1.",
        "beta2": "How slowly the variance follows new gradients, between 0 and 1.",
        "low": "Least variance of a coordinate that is learned.",
        "high": "Largest variance of a coordinate that is learned.",
    },
    "Slack": {
        "c": "Clipping bound C of the first round (L2 norm).",
        "low": "Least C; c / 10 unless given.",
        "high": "Largest C; c unless given.",
        "unused": "Mean fraction of C^2 that units should leave unused.",
        "eta": "Learning rate of ln C where there is no noise.",
        "drift": "How far noise alone may move ln C in the long run.",
        "slots": "Number of norms, K, that are counted beside each gradient.",
        "per_layer": "Whether each layer is clipped, and counted, by itself.",
    },
    "Fixed": {"value": "The sensitivity S."},
    "L2MaxAsCoded": {"low": _OWN_LOW, "high": _OWN_HIGH},
    "Constant": {"sigma": "Noise scale: standard deviation divided by the sensitivity; 0 for no noise."},
    "Linear": {"start": _START, "end": _END, "gamma": _GAMMA, "per": _PER},
    "Staircase": {
        "start": _START,
        "end": _END,
        "gamma": _GAMMA,
        "every": "Number of rounds of a stair; a tenth of all unless given.",
        "per": _PER,
    },
    "Exponential": {"start": _START, "end": _END, "gamma": _GAMMA, "per": _PER},
    "Cyclic": {
        "start": _START,
        "floor": "Least noise scale.",
        "cycles": "Number of cycles over the run.",
        "per": _PER,
    },
    "Schema": {
        "target": "The column to predict.",
        "columns": "The other columns, each with the rule by which it becomes features.",
        "public": "Whether you vouch that no range, level or class in it was taken from the private rows.",
    },
    "ClassTarget": {"name": _NAME, "classes": "Names of all classes, numbered in this order."},
    "NumberTarget": {"name": _NAME, "low": "Smaller numbers count as this one.", "high": "Larger ones as this one."},
    "NumberColumn": {
        "name": _NAME,
        "low": "Smaller numbers count as this one, which becomes -1.",
        "high": "Larger numbers count as this one, which becomes 1.",
        "missing": _MISSING,
    },
    "ScaledColumn": {
        "name": _NAME,
        "mean": "What is subtracted.",
        "scale": "What the difference is divided by.",
        "missing": _MISSING,
    },
    "CategoryColumn": {"name": _NAME, "levels": "All values that may occur, one feature each.", "missing": _MISSING},
    "DateColumn": {
        "name": _NAME,
        "forms": "What of a date is used: `days` (as a number), `year` and `week` (the place in them).",
        "first": "Earliest day, such as 2024-01-31; for `days`.",
        "last": "Latest day; for `days`.",
        "pattern": "How dates are written, as for Python's strptime; 2024-01-31 unless given.",
        "missing": _MISSING,
    },
    "IgnoredColumn": {
        "name": _NAME,
        "reason": "Why it is not used: `identifier`, `constant`, `text` or `unwanted`.",
    },
    "Cnn": {"first": "Filters of the first convolution.", "second": "Filters of the second convolution."},
    "Mlp": {"hidden": "Units of each hidden layer.", "bias": "Whether layers have biases."},
    "AttackNet": {"width": "Weights are drawn uniformly between -width and width."},
    "SoftmaxRegression": {
        "mean": "A round in which the noisy mean of the features is released; left out for none.",
        "moment": "A round in which their noisy second moment is released; left out for none.",
        "radius": "Features of a smaller norm are not scaled up to norm 1.",
        "bias": "Constant feature beside the others.",
    },
    "NoisedMean": {"share": _SHARE},
    "NoisedSecondMoment": {
        "share": _SHARE,
        "ridge": "What is added to the eigenvalues, as a multiple of the largest that noise alone has.",
    },
    "Dirichlet": {"alpha": "Concentration: the smaller, the more the clients' classes differ."},
    "ServerSide": {
        "momentum": "Momentum of the server, between 0 and 1.",
        "decay": "By how much the server's learning rate falls from 1 over the run.",
        "average": "Fraction of the rounds, the last ones, whose models are averaged into the result.",
    },
    "Features": {
        "scattering": "Scattering features of pictures.",
        "patches": "Features of pictures by filters cut from procedural pictures.",
        "table": "Features of table rows.",
        "map": "A fixed linear map from all of these to fewer numbers.",
        "seed": "Public seed of filters, procedural pictures and projections; not the seed of the run.",
    },
    "ScatteringBlock": {
        "scales": "Number of scales (J).",
        "angles": "Number of angles (L).",
        "group": "Number of channels that are standardized together.",
        "keep": _KEEP,
        "mirror": _MIRROR,
    },
    "PatchBlock": {
        "filters": "Number of filters.",
        "pictures": _PICTURES,
        "side": "Height and width of a filter in pixels.",
        "threshold": "What is subtracted from responses; those below it count as 0.",
        "cells": "Responses are averaged in each of cells x cells blocks of the picture.",
        "keep": _KEEP,
        "half": "Whether the picture at half its size is filtered too.",
        "mirror": _MIRROR,
    },
    "TableBlock": {"norm": "Public bound of a row's norm: rows are clipped to it, and divided by it."},
    "RandomMap": {"k": _K},
    "GlyphMap": {
        "k": _K,
        "skeletons": "Number of procedural glyphs that are told apart.",
        "copies": "Number of deformed copies of each glyph.",
    },
    "LeafMap": {
        "k": _K,
        "power": "How much components of large variance are scaled down; 0.5 makes all variances equal.",
        "pictures": _PICTURES,
        "objects": "Whether the procedural pictures are symmetric objects on black.",
    },
    "Tuned": {
        "found": "How the settings were found, in a sentence.",
        "trials": "Number of trials on these very records; 0 if other data were used.",
        "hidden": "Whether the number of trials was random and secret, with mean `trials`.",
        "sigma": "Noise scale of what a trial released.",
        "clients": "Number of clients that added noise in a trial.",
        "honest": "How many of them keep their noise to themselves.",
    },
    "SecureSum": {
        "nodes": "Number of nodes; clients are dealt over them in turn.",
        "tolerated": "Number of nodes that may collude with the server; a third of the others unless given.",
        "minimum_nodes": "Least number of nodes in a sum; two thirds of all unless given.",
    },
}
