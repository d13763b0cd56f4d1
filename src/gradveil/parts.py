"""What your own parts are built on: the protocols, the bases and the values of gradveil, under one name.

A part is a frozen dataclass that has the members of its protocol. A clip with a constant bound needs two of them:

>>> import jax.numpy as jnp
>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Halved(ConstantClip):
...     c: float = 1.0
...     def scales(self, norms, state):
...         return jnp.broadcast_to(within(joint_norms(norms), self.c / 2), norms.shape)
...     def bound(self, state):
...         return jnp.asarray(self.c / 2)
>>> float(Halved(4.0).bound(()))
2.0
"""

from gradveil.attacks.attack import Attack, Reconstruction, Trajectory
from gradveil.attacks.leak import Leak
from gradveil.data.partition import Partition
from gradveil.data.sampling import BatchIndices, Sampling
from gradveil.models.networks import Model
from gradveil.privacy.adaptive import AdaClip, Quantile
from gradveil.privacy.clip import Clip, ConstantClip, Flat, NormStats, PerLayer, Unclipped, joint_norms, within
from gradveil.privacy.draw import Draw
from gradveil.privacy.method import Method
from gradveil.privacy.prune import Keep, Prune
from gradveil.privacy.schedule import Constant, Exponential, Linear, Schedule
from gradveil.privacy.sensitivity import ClipBound, Fixed, Sensitivity
from gradveil.surface import Surface

__all__ = [
    "AdaClip",
    "Attack",
    "BatchIndices",
    "Clip",
    "ClipBound",
    "Constant",
    "ConstantClip",
    "Draw",
    "Exponential",
    "Fixed",
    "Flat",
    "Keep",
    "Leak",
    "Linear",
    "Method",
    "Model",
    "NormStats",
    "Partition",
    "PerLayer",
    "Prune",
    "Quantile",
    "Reconstruction",
    "Sampling",
    "Schedule",
    "Sensitivity",
    "Surface",
    "Trajectory",
    "Unclipped",
    "joint_norms",
    "within",
]
