"""Files for other programs: parameters as .npz or .safetensors, the whole function as StableHLO."""

import json
import struct
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export as jax_export

from gradveil.data.dataset import readable
from gradveil.errors import BadInput
from gradveil.federation.plan import Plan
from gradveil.models.features.extract import transform
from gradveil.models.features.feature_cache import cached_constants
from gradveil.runs import store
from gradveil.tree import Array, Tree

ENDINGS = (".npz", ".safetensors", ".stablehlo")
_ALIGNMENT = 8
_TYPES = {"float16": "F16", "float32": "F32", "float64": "F64", "int32": "I32", "int64": "I64", "uint8": "U8"}


def export(plan: Plan, params: Tree, encoding: store.EncodingRecord, metadata: dict[str, str], path: Path) -> Path:
    """Write a file by its ending: .npz, .safetensors or .stablehlo; it appears whole or not at all."""
    if path.suffix not in ENDINGS:
        raise BadInput(f"path = {str(path)!r}: must end in {', '.join(ENDINGS)}")
    if path.suffix == ".stablehlo":
        content = stablehlo(plan, params, encoding)
    elif path.suffix == ".npz":
        content = store.npz(named_parameters(params))
    else:
        content = safetensors(named_parameters(params), metadata)
    store.write(path, content)
    return path


def texts(values: dict[str, Any]) -> dict[str, str]:
    """Return values as texts, as the metadata of a .safetensors file must be; a list becomes JSON."""
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}


def named_parameters(params: Tree) -> dict[str, np.ndarray[Any, Any]]:
    """Return the parameters by their place in the tree, such as `0` or `Dense_0.kernel`."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in leaves}


def safetensors(arrays: dict[str, np.ndarray[Any, Any]], metadata: dict[str, str]) -> bytes:
    """Return the format of https://github.com/huggingface/safetensors.

    The length of the header in 8 bytes, little-endian; the header in JSON: type, shape and the place of each array in
    what follows; the numbers, row by row. The header is filled with spaces to a multiple of 8 bytes.
    """
    header: dict[str, Any] = {"__metadata__": metadata}
    place, parts = 0, []
    for name, array in arrays.items():
        content = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
        header[name] = {
            "dtype": _TYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [place, place + len(content)],
        }
        place += len(content)
        parts.append(content)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def stablehlo(plan: Plan, params: Tree, encoding: store.EncodingRecord) -> bytes:
    """Return x [n, ...] -> logits [n, classes], for any n, as StableHLO in portable bytecode, parameters included.

    Where a number is predicted: x [n, ...] -> predictions [n], in the units of the target. A model with one output z
    for two classes has the logits (0, z).

    x is uint8 where the run's data were pixels, float32 otherwise. Lowered for the CPU; no operation in it is special
    to one.
    """
    features, model, target = plan.features, plan.model, encoding.target_range
    constants = None if features is None else cached_constants(features, encoding.shape)

    def function(x: Array) -> Array:
        read = readable(x) if features is None or constants is None else transform(features, constants, x)
        computed: Array = jax.vmap(model.apply, in_axes=(None, 0))(params, read)
        return computed if target is None else target[0] + (computed[:, -1] + 1) * (target[1] - target[0]) / 2

    (count,) = jax_export.symbolic_shape("n")
    kind = np.uint8 if encoding.pixels else np.float32
    examples = jax.ShapeDtypeStruct((count, *encoding.shape), kind)
    return bytes(jax_export.export(jax.jit(function), platforms=("cpu",))(examples).mlir_module_serialized)
