"""Optimisers for the clients' local steps and for the server, as small pieces that can be chained.

A piece turns a gradient into a direction; a step is then θ ← θ − η · direction. The same pieces
serve both sides: a client's gradient is that of its weighted objective, the server's is −Δ(t), the
sum of the clients' moves with their shares p_m(t). So weights keep their meaning, and the usual
names are

    FedProx   local=[Proximal(0.1)]           Li et al., MLSys 2020
    FedAvgM   server=[Momentum(0.9)]          Hsu, Qi, Brown, 2019
    FedAdam   server=[FedAdam()]              Reddi et al., ICLR 2021
    FedYogi   server=[FedYogi()]              Reddi et al., ICLR 2021

A client keeps nothing from round to round: its memory of gradients begins anew in every round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from headwater.errors import InputError
from headwater.learning.settings import number

Memory = tuple[Tensor, ...]
"""What a piece remembers from step to step."""


def _check(name: str, value: object, below: float = float("inf")) -> None:
    limit = "a number above 0" + ("" if below == float("inf") else f" and below {below:g}")
    if not 0 < number(name, value, limit) < below:
        raise InputError(f"{name}: {limit}; got {value!r}")


def _check_moments(
    name: str, beta1: object, beta2: object, epsilon: object, last: str = "epsilon"
) -> None:
    _check(f"{name}(beta1)", beta1, below=1.0)
    _check(f"{name}(beta2)", beta2, below=1.0)
    _check(f"{name}({last})", epsilon)


@runtime_checkable
class Piece(Protocol):
    """Turns a gradient into a direction."""

    slots: ClassVar[int]
    """How many vectors it remembers."""

    def start(self, parameters: Tensor) -> Memory:
        """What it remembers before the first step."""
        ...

    def __call__(
        self, gradient: Tensor, parameters: Tensor, anchor: Tensor, memory: Memory, step: int
    ) -> tuple[Tensor, Memory]:
        """The direction, and what is remembered.

        Args:
            gradient: of the objective, or what the piece before has made of it.
            parameters: θ, where the gradient was taken.
            anchor: θ(t), where the round began.
            memory: of this piece.
            step: 1, 2, …
        """
        ...


@dataclass(frozen=True)
class WeightDecay:
    """g + factor · θ: parameters shrink, as with PyTorch's ``weight_decay``."""

    factor: float
    slots: ClassVar[int] = 0

    def __post_init__(self) -> None:
        _check("WeightDecay(factor)", self.factor)

    def start(self, parameters: Tensor) -> Memory:  # noqa: ARG002 (the protocol's signature)
        """Nothing."""
        return ()

    def __call__(
        self,
        gradient: Tensor,
        parameters: Tensor,
        anchor: Tensor,  # noqa: ARG002
        memory: Memory,
        step: int,  # noqa: ARG002
    ) -> tuple[Tensor, Memory]:
        """Add the decay."""
        return gradient.add(parameters, alpha=self.factor), memory


@dataclass(frozen=True)
class Proximal:
    """g + strength · (θ − θ(t)): clients stay near the round's model, FedProx's μ."""

    strength: float
    slots: ClassVar[int] = 0

    def __post_init__(self) -> None:
        _check("Proximal(strength)", self.strength)

    def start(self, parameters: Tensor) -> Memory:  # noqa: ARG002
        """Nothing."""
        return ()

    def __call__(
        self,
        gradient: Tensor,
        parameters: Tensor,
        anchor: Tensor,
        memory: Memory,
        step: int,  # noqa: ARG002
    ) -> tuple[Tensor, Memory]:
        """Add the pull to where the round began."""
        return gradient.add(parameters - anchor, alpha=self.strength), memory


@dataclass(frozen=True)
class Momentum:
    """v ← beta · v + g, and v is the direction: heavy balls, as in PyTorch's SGD."""

    beta: float = 0.9
    slots: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _check("Momentum(beta)", self.beta, below=1.0)

    def start(self, parameters: Tensor) -> Memory:
        """v = 0."""
        return (torch.zeros_like(parameters),)

    def __call__(
        self,
        gradient: Tensor,
        parameters: Tensor,  # noqa: ARG002
        anchor: Tensor,  # noqa: ARG002
        memory: Memory,
        step: int,  # noqa: ARG002
    ) -> tuple[Tensor, Memory]:
        """Add the gradient to what is left of those before."""
        velocity = gradient.add(memory[0], alpha=self.beta)
        return velocity, (velocity,)


@dataclass(frozen=True)
class Adam:
    """m̂ / (√v̂ + epsilon) with running means m of g and v of g², corrected for their start at 0."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    slots: ClassVar[int] = 2

    def __post_init__(self) -> None:
        _check_moments("Adam", self.beta1, self.beta2, self.epsilon)

    def start(self, parameters: Tensor) -> Memory:
        """m = v = 0."""
        return torch.zeros_like(parameters), torch.zeros_like(parameters)

    def __call__(
        self,
        gradient: Tensor,
        parameters: Tensor,  # noqa: ARG002
        anchor: Tensor,  # noqa: ARG002
        memory: Memory,
        step: int,
    ) -> tuple[Tensor, Memory]:
        """The mean gradient over its size, coordinate by coordinate."""
        first = memory[0].lerp(gradient, 1 - self.beta1)
        second = memory[1].lerp(gradient.square(), 1 - self.beta2)
        size = (second / (1 - self.beta2**step)).sqrt().add(self.epsilon)
        return first / (1 - self.beta1**step) / size, (first, second)


@dataclass(frozen=True)
class FedAdam:
    """m / (√v + tau) as in Reddi et al., Algorithm 2: no correction, and v begins at tau²."""

    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3
    slots: ClassVar[int] = 2

    def __post_init__(self) -> None:
        _check_moments(type(self).__name__, self.beta1, self.beta2, self.tau, "tau")

    def start(self, parameters: Tensor) -> Memory:
        """m = 0, v = tau²."""
        return torch.zeros_like(parameters), torch.full_like(parameters, self.tau**2)

    def __call__(
        self,
        gradient: Tensor,
        parameters: Tensor,  # noqa: ARG002
        anchor: Tensor,  # noqa: ARG002
        memory: Memory,
        step: int,  # noqa: ARG002
    ) -> tuple[Tensor, Memory]:
        """The mean move over its size, coordinate by coordinate."""
        first = memory[0].lerp(gradient, 1 - self.beta1)
        second = self._second(memory[1], gradient.square())
        return first / (second.sqrt() + self.tau), (first, second)

    def _second(self, before: Tensor, square: Tensor) -> Tensor:
        return before.lerp(square, 1 - self.beta2)


@dataclass(frozen=True)
class FedYogi(FedAdam):
    """The same with v ← v − (1 − beta2) · g² · sign(v − g²): v changes by no more than g²."""

    def _second(self, before: Tensor, square: Tensor) -> Tensor:
        return before - (1 - self.beta2) * square * torch.sign(before - square)


@dataclass(frozen=True)
class Chain:
    """Pieces one after the other; without any, the gradient is the direction.

    Attributes:
        pieces: in the order in which they are applied.

    Example:
        >>> chain = Chain((WeightDecay(0.5), Momentum(0.9)))
        >>> theta = torch.tensor([2.0])
        >>> chain(torch.tensor([1.0]), theta, theta, chain.start(theta), 1)
        (tensor([2.]), (tensor([2.]),))
    """

    pieces: tuple[Piece, ...] = ()

    def start(self, parameters: Tensor) -> Memory:
        """What all pieces remember before the first step, one after the other."""
        return tuple(vector for piece in self.pieces for vector in piece.start(parameters))

    def __call__(
        self, gradient: Tensor, parameters: Tensor, anchor: Tensor, memory: Memory, step: int
    ) -> tuple[Tensor, Memory]:
        """The direction, and what all pieces remember."""
        after: list[Tensor] = []
        # All memories lie in one flat tuple, which a checkpoint can write without knowing pieces.
        for piece in self.pieces:
            mine, memory = memory[: piece.slots], memory[piece.slots :]
            gradient, mine = piece(gradient, parameters, anchor, mine, step)
            after += mine
        return gradient, tuple(after)


PLAIN = Chain()
"""The gradient is the direction: plain gradient steps."""


@dataclass(frozen=True)
class Server:
    """What the server does with the clients' moves: θ ← θ − rate · direction(−Δ).

    Attributes:
        chain: pieces; none: the moves as they are.
        rate: the server's learning rate.
    """

    chain: Chain = PLAIN
    rate: float = 1.0

    def __post_init__(self) -> None:
        _check("server_rate", self.rate)

    @property
    def plain(self) -> bool:
        """Are the moves simply added, as in Algorithm 1?"""
        return not self.chain.pieces and self.rate == 1.0

    def __call__(
        self, move: Tensor, parameters: Tensor, memory: Memory, step: int
    ) -> tuple[Tensor, Memory]:
        """How far the model goes, and what is remembered."""
        memory = memory or self.chain.start(parameters)
        direction, memory = self.chain(-move, parameters, parameters, memory, step)
        return direction * -self.rate, memory


ADD_MOVES = Server()
"""The clients' moves as they are: line 14 of Algorithm 1."""


def chain_of(pieces: Piece | Sequence[Piece], setting: str) -> Chain:
    """One piece or several, as given by a user."""
    several = (pieces,) if isinstance(pieces, Piece) else pieces
    try:
        found = tuple(several)
    except TypeError:
        found = (several,)  # type: ignore[assignment]
    for piece in found:
        if isinstance(piece, type) or not isinstance(piece, Piece):
            raise InputError(
                f"{setting}: pieces such as Momentum(0.9) or Proximal(0.1); got {piece!r}"
            )
    return Chain(found)
