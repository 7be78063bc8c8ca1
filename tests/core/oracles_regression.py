"""What least squares must do under the paper's law, by an integral instead of a simulation."""

import numpy as np
from scipy import stats


def least_squares_error(n_examples: int, n_dims: int = 20, mean: float = -2.0) -> float:
    """E (y - yhat)^2 of minimum-norm least squares after n < D pairs, x ~ N(mean 1, I), y = beta.x.

    The error is `beta.P x`, P the projector off the span of the inputs seen; over beta ~ N(0, I)
    it has mean square `E |P x|^2 = (D - n) + E |P mu|^2`. With Z the parts of the inputs orthogonal
    to mu and a ~ N(|mu|, 1) their coordinates along it, a ratio of Gram determinants gives
    `|P mu|^2 = |mu|^2 / (1 + a^T (Z Z^T)^-1 a)`. Z Z^T is Wishart with D - 1 degrees of freedom, so
    `a^T (Z Z^T)^-1 a = |a|^2 / q` with q ~ chi^2(D - n) independent of |a|^2 ~ chi^2_n(n |mu|^2).
    Signs of inputs do not move their span, so the mixture of N(mean 1, I) and N(-mean 1, I) has the
    same error.
    """
    norm2 = n_dims * mean**2
    probabilities = (np.arange(400) + 0.5) / 400
    a2 = stats.ncx2(n_examples, n_examples * norm2).ppf(probabilities)
    q = stats.chi2(n_dims - n_examples).ppf(probabilities)
    along = (norm2 / (1 + a2[:, None] / q[None, :])).mean()
    return n_dims - n_examples + float(along)
