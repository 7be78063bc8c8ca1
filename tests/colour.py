"""How colours look to people: contrast, lightness, distance, and what colour blindness leaves of them."""

from __future__ import annotations

import numpy as np

# Machado, Oliveira and Fernandes 2009, A Physiologically-based Model for Simulation of Color Vision Deficiency,
# severity 1: matrices on linear RGB.
DEFICIENT = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
SIGHT = (None, *DEFICIENT)
_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> np.ndarray:
    """`#rrggbb` as linear RGB `(3,)` from 0 to 1."""
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def contrast(a: str, b: str) -> float:
    """WCAG contrast ratio of two colours, from 1 to 21."""
    high, low = sorted((float(linear(c) @ _XYZ[1]) for c in (a, b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def lab(colour: str, deficiency: str | None = None) -> np.ndarray:
    """CIE L*a*b* `(3,)` under D65, as somebody with this deficiency sees the colour."""
    rgb = linear(colour)
    if deficiency:
        rgb = np.clip(np.array(DEFICIENT[deficiency]) @ rgb, 0, 1)
    xyz = _XYZ @ rgb / _XYZ.sum(1)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """CIEDE2000 of two L*a*b* colours (Sharma, Wu and Dalal 2005, whose table of pairs tests it)."""
    (l1, a1, b1), (l2, a2, b2) = a, b
    mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    g = 0.5 * (1 - np.sqrt(mean**7 / (mean**7 + 25.0**7)))
    a1, a2 = (1 + g) * a1, (1 + g) * a2
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = np.degrees(np.arctan2(b1, a1)) % 360, np.degrees(np.arctan2(b2, a2)) % 360
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    h = (h1 + turn / 2) % 360 if c1 * c2 else h1 + h2
    dl, dc, dh = l2 - l1, c2 - c1, 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2))
    l, c = (l1 + l2) / 2, (c1 + c2) / 2  # noqa: E741 - the letters of the formula
    cos = lambda times, off: np.cos(np.radians(times * h + off))  # noqa: E731
    t = 1 - 0.17 * cos(1, -30) + 0.24 * cos(2, 0) + 0.32 * cos(3, 6) - 0.20 * cos(4, -63)
    sl = 1 + 0.015 * (l - 50) ** 2 / np.sqrt(20 + (l - 50) ** 2)
    sc, sh = 1 + 0.045 * c, 1 + 0.015 * c * t
    rt = (
        -2
        * np.sqrt(c**7 / (c**7 + 25.0**7))
        * np.sin(np.radians(60 * np.exp(-(((h - 275) / 25) ** 2))))
    )
    dl, dc, dh = dl / sl, dc / sc, dh / sh
    return float(np.sqrt(dl**2 + dc**2 + dh**2 + rt * dc * dh))
