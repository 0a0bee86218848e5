"""The networks of the workloads in JAX, laid out as XLA likes them on a processor: channels last,
input by output.

Each is a forward pass over a list of arrays and the change of layout from PyTorch's arrays and
back.
"""

# mypy: disable-error-code="import-not-found"
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Arrays = list[Any]


@dataclass(frozen=True)
class Network:
    """Forward pass, mean loss of a batch of scores, and the layout of the weights."""

    forward: Callable[[Arrays, Any], Any]
    loss: Callable[[Any, Any], Any]
    from_torch: Callable[[Arrays], Arrays]
    to_torch: Callable[[Arrays], Arrays]


def transposed(weights: Arrays) -> Arrays:
    """Matrices input by output; its own inverse."""
    return [w.T if w.ndim == 2 else w for w in weights]


def binary(scores: Any, labels: Any) -> Any:
    """Mean logistic loss; labels are 0 or 1."""
    return jnp.mean(jnp.logaddexp(0.0, scores[:, 0]) - labels * scores[:, 0])


def entropy(scores: Any, labels: Any) -> Any:
    """Mean cross-entropy."""
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1))


def linear(weights: Arrays, x: Any) -> Any:
    """Logistic regression."""
    return x @ weights[0] + weights[1]


def two_layers(weights: Arrays, x: Any) -> Any:
    """784–1024–62."""
    return jax.nn.relu(x @ weights[0] + weights[1]) @ weights[2] + weights[3]


def pooled(x: Any, kernel: Any, bias: Any) -> Any:
    """Convolution without padding, ReLU, maximum over 2 by 2."""
    x = jax.lax.conv_general_dilated(
        x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    x = jax.nn.relu(x + bias)
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def convolutional(weights: Arrays, x: Any) -> Any:
    """The network for colour images, channels last."""
    x = pooled(pooled(x, *weights[:2]), *weights[2:4])
    return two_layers(weights[4:], x.reshape(x.shape[0], -1))


def channels_last(weights: Arrays) -> Arrays:
    """Kernels height, width, in, out; the first matrix takes positions before channels."""
    kernels = [np.transpose(w, (2, 3, 1, 0)) if w.ndim == 4 else w for w in weights[:4]]
    first = weights[4].reshape(-1, 64, 5, 5).transpose(2, 3, 1, 0).reshape(1600, -1)
    return [*kernels, first, *transposed(weights[5:])]


def channels_first(weights: Arrays) -> Arrays:
    """The inverse of `channels_last`."""
    kernels = [np.transpose(w, (3, 2, 0, 1)) if np.ndim(w) == 4 else w for w in weights[:4]]
    first = np.asarray(weights[4]).reshape(5, 5, 64, -1).transpose(3, 2, 0, 1).reshape(-1, 1600)
    return [*kernels, first, *transposed(weights[5:])]


def layer(weights: Arrays, x: Any) -> Any:
    """One plain recurrent layer over time-major inputs: all its states."""
    of_input, of_state, *biases = weights
    projected = x @ of_input + sum(biases)

    def step(state: Any, now: Any) -> tuple[Any, Any]:
        state = jnp.tanh(now + state @ of_state)
        return state, state

    return jax.lax.scan(step, jnp.zeros((x.shape[1], of_state.shape[0])), projected)[1]


def recurrent(weights: Arrays, x: Any) -> Any:
    """Embedding, two recurrent layers, scores of the next character."""
    states = layer(weights[5:9], layer(weights[1:5], weights[0][x.T]))
    return states[-1] @ weights[9] + weights[10]


def recurrent_layout(weights: Arrays) -> Arrays:
    """All matrices but the embedding input by output; its own inverse."""
    return [weights[0], *transposed(weights[1:])]


NETWORKS = {
    "logistic": Network(linear, binary, transposed, transposed),
    "digits": Network(two_layers, entropy, transposed, transposed),
    "images": Network(convolutional, entropy, channels_last, channels_first),
    "characters": Network(recurrent, entropy, recurrent_layout, recurrent_layout),
}
