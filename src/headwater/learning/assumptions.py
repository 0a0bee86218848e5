"""What a model and a loss must be like, tried on a few samples before the first round.

A federation computes Σ_m p_m(t) ∇L_m, and L_m is a weighted sum over samples. That holds only if a
sample's loss does not depend on which other samples are in its batch, if a forward pass leaves
nothing behind but its answer, and if every gradient reaches the parameters. A model or a loss that
breaks this would learn something else in every engine, so it is refused, with the reason and a fix.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import UninitializedParameter

from headwater.errors import InputError
from headwater.learning.arrays import all_finite
from headwater.learning.losses import check_labels, cross_entropy
from headwater.learning.problem import Problem

_CANDIDATES = 1000  # samples among which two different ones are looked for
_FAILURES = (RuntimeError, ValueError, IndexError, TypeError, AttributeError, NotImplementedError)
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-8}  # kernels round by the size of a batch


def check(problem: Problem) -> None:
    """Try a model and a loss; say what is wrong in the user's words."""
    _check_parameters(problem)
    _check_batch_norm(problem.model)
    x, y = _different_samples(problem)
    with torch.random.fork_rng(devices=[]):
        _check_losses(problem, x, y)
        with torch.no_grad():
            _check_buffers(problem.model, x)
            _check_alone(problem, x, y)


def check_answers(problem: Problem, x: Tensor, y: Tensor, where: str) -> Tensor:
    """The model's answers to some samples; ``where`` says whose labels are checked."""
    try:
        output = problem.model(x)
        if problem.loss is cross_entropy:
            check_labels(output, y, where)
    except InputError:
        raise
    except _FAILURES as error:
        raise InputError(
            f"model(x) fails on the first samples: features {tuple(x.shape)} {x.dtype} "
            f"({_first_line(error)}){_hint_for(x)}"
        ) from error
    return output


def _check_parameters(problem: Problem) -> None:
    every = list(problem.model.named_parameters())
    lazy = [name for name, p in every if isinstance(p, UninitializedParameter)]
    if lazy:
        raise InputError(
            f"model: {lazy[0]} has no shape yet; call the model once with a sample before"
        )
    if not problem.parameters:
        raise InputError("model: it has no parameters that require a gradient")
    kinds = sorted({str(p.dtype) for _, p in problem.parameters})
    if len(kinds) > 1 or problem.parameters[0][1].dtype not in _TOLERANCE:
        raise InputError(
            f"model: parameters must all be float32 or all float64; found {', '.join(kinds)}"
        )
    # Said here, or the first round would "diverge" and a smaller learning rate be recommended.
    for name, p in every:
        if not all_finite(p):
            raise InputError(f"model: {name} has NaN or infinity before the first round")


def _check_batch_norm(model: nn.Module) -> None:
    """One that is in evaluation mode uses fixed statistics, which is fine."""
    for name, module in model.named_modules():
        if isinstance(module, _BatchNorm) and module.training:
            raise InputError(
                f"model: {name or type(module).__name__} (BatchNorm) mixes the samples of a batch "
                "and keeps statistics that cannot be added with clients' shares; use GroupNorm or "
                "LayerNorm instead, or freeze its statistics with .eval() on that layer"
            )


def _different_samples(problem: Problem) -> tuple[Tensor, Tensor]:
    """Sample 0, one with other features and one with another label, if there are any."""
    count = len(problem.x if problem.rows is None else problem.rows)
    x, y = problem.take(problem.where(np.arange(min(count, _CANDIDATES))))
    chosen = [0]
    # Equal samples would hide a mixing: the mean of equals is each of them.
    for values in (x, y):
        differs = (values != values[:1]).reshape(len(values), -1).any(1).nonzero()
        chosen += differs[:1].flatten().tolist()
    rows = torch.tensor(list(dict.fromkeys(chosen)), device=x.device)
    return x.index_select(0, rows), y.index_select(0, rows)


def _check_losses(problem: Problem, x: Tensor, y: Tensor) -> None:
    """One finite number per sample, from which gradients reach the parameters."""
    # With gradients on: a loss that cannot be differentiated is to be found now.
    with torch.enable_grad():
        output = check_answers(problem, x, y, "Client(y)")
        if problem.loss is cross_entropy:
            check_labels(output, problem.y, "Client(y)")
        losses = _losses(problem, output, y)
    if not isinstance(losses, Tensor) or losses.shape != (len(x),):
        got = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        raise InputError(
            f"loss: one number per sample, shape ({len(x)},); got {got} (use reduction='none')"
        )
    if not torch.isfinite(losses).all():
        largest = float(x.abs().max()) if x.is_floating_point() else 0.0
        raise InputError(
            f"loss(model(x), y) is {losses.tolist()} before the first round; features are up to "
            f"{largest:.3g} there: scale them, or look at the model and the loss"
        )
    if not losses.requires_grad:
        raise InputError(
            "loss: no gradient reaches the model's parameters; do without .detach(), .item(), "
            "argmax and torch.no_grad() in model and loss"
        )


def _losses(problem: Problem, output: Tensor, y: Tensor) -> Tensor:
    try:
        return problem.loss(output, y)
    except _FAILURES as error:
        shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise InputError(
            f"loss(model(x), y) fails on the first samples: outputs {shape}, labels "
            f"{tuple(y.shape)} {y.dtype} ({_first_line(error)}). Cross-entropy takes whole numbers "
            "from 0 as labels; for other labels give a loss= of your own, such as hw.squared_error"
        ) from error


def _check_buffers(model: nn.Module, x: Tensor) -> None:
    # On a copy, as the forward pass itself may be what changes the model.
    tried = _copy_with_its_parameters(model)
    tried(x)
    before = dict(model.named_buffers())
    for name, buffer in tried.named_buffers():
        if name not in before or not torch.equal(before[name], buffer):
            raise InputError(
                f"model: a forward pass changes the buffer {name}; such statistics belong to one "
                "client's batches and cannot be added with clients' shares. Use GroupNorm or "
                "LayerNorm, switch them off (track_running_stats=False), or freeze them with "
                ".eval() on that layer"
            )


def _check_alone(problem: Problem, x: Tensor, y: Tensor) -> None:
    """Samples together must get the answers and losses that each gets alone."""
    model = _copy_with_its_parameters(problem.model)
    together, draws = _without_draws(model, x)
    if draws:
        return  # no two of its answers can be compared
    if not _close(model(x), together):
        raise InputError(
            "model: the same samples get another answer when asked again; random draws must come "
            "from torch's own generator, and nothing may be remembered from call to call"
        )
    singles = [slice(k, k + 1) for k in range(len(x))]
    alone = [_alone(model, x[one]) for one in singles]
    # Models may answer with tuples or dictionaries; those are compared by their losses only.
    if isinstance(together, Tensor) and not _close(torch.cat(alone), together):
        raise InputError(
            "model: a sample's answer depends on the other samples of its batch (a mean or a norm "
            "over the first dimension, or squeeze() and view() that move it); clients' batches "
            "must not be mixed, so compute each sample's answer from that sample alone"
        )
    losses = [
        _alone(problem.loss, answer, y[one]) for answer, one in zip(alone, singles, strict=True)
    ]
    if not _close(torch.cat(losses), problem.loss(together, y)):
        raise InputError(
            "loss: a sample's loss depends on the other samples of its batch; outputs "
            f"{_shape(together)} and labels {tuple(y.shape)} may have been broadcast against each "
            "other (use outputs.squeeze(-1)), or the loss is a mean already"
        )


def _alone(answer: Callable[..., Tensor], *sample: Tensor) -> Tensor:
    """The answer for one sample, which must be one row."""
    try:
        found = answer(*sample)
    except _FAILURES as error:
        raise InputError(
            f"model and loss must take a single sample, as a client may hold one only "
            f"({_first_line(error)})"
        ) from error
    if isinstance(found, Tensor) and (not found.ndim or len(found) != 1):
        raise InputError(
            f"model and loss must give one row for a single sample; got {tuple(found.shape)} "
            "(squeeze() takes away the first dimension too: use squeeze(-1))"
        )
    return found


def _without_draws(model: nn.Module, x: Tensor) -> tuple[Tensor, bool]:
    """Put a model into a state in which it does not draw at random; its answer, and does it still?

    It no longer drops out then; if it draws in another way, it is in evaluation mode.
    """
    for module in model.modules():
        if isinstance(module, _DropoutNd):
            module.eval()
    answer, draws = _asked(model, x)
    return _asked(model.eval(), x) if draws else (answer, False)


def _copy_with_its_parameters(model: nn.Module) -> nn.Module:
    """A copy with buffers and modes of its own; the parameters, which may be many, are shared."""
    return copy.deepcopy(model, {id(p): p for p in model.parameters()})


def _asked(model: nn.Module, x: Tensor) -> tuple[Tensor, bool]:
    """A model's answer, and whether it drew at random for it."""
    before = torch.get_rng_state()
    answer = model(x)
    return answer, not torch.equal(before, torch.get_rng_state())


def _close(one: object, other: object) -> bool:
    """Equal up to rounding, by the size of the numbers; of what is no tensor, nothing is said."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return True
    if one.shape != other.shape:
        return False
    scale = float(other.abs().max()) if other.numel() else 0.0
    tolerance = _TOLERANCE.get(other.dtype, 0.0)
    return bool(((one - other).abs() <= tolerance * scale).all())


def _hint_for(x: Tensor) -> str:
    if x.dtype == torch.uint8:
        return "; images of bytes become numbers for a model by x.astype('float32') / 255"
    if not x.is_floating_point():
        return "; whole numbers are for embeddings, other layers want floats: x.astype('float32')"
    return ""


def _shape(output: object) -> object:
    return tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__


def _first_line(error: Exception) -> str:
    """PyTorch's messages go on for pages."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
