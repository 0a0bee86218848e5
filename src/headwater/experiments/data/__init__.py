"""The real data sets, read from their official layouts into NumPy arrays, without any training."""

from headwater.experiments.data.cifar import Cifar10, Cifar100, load_cifar10, load_cifar100
from headwater.experiments.data.femnist import Femnist, load_femnist
from headwater.experiments.data.shakespeare import Shakespeare, load_shakespeare
from headwater.experiments.data.wisdm import Wisdm, load_wisdm

__all__ = [
    "Cifar10",
    "Cifar100",
    "Femnist",
    "Shakespeare",
    "Wisdm",
    "load_cifar10",
    "load_cifar100",
    "load_femnist",
    "load_shakespeare",
    "load_wisdm",
]
