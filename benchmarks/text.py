"""How long the text page's default model takes: to load, and for 64 questions after 8 examples.

python -m benchmarks.text

Measured as the page does it: pieces of 8 questions, a piece to a core, one thread a piece.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

import torch

from core import text
from models import text_lm


def main(n: int = 64, k: int = 8) -> None:
    torch.set_num_threads(1)
    start = time.perf_counter()
    lm = text_lm.load()
    print(f"load {time.perf_counter() - start:.1f} s, {lm.model.dtype}, {os.cpu_count()} cores")
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        for name in text.bundled_names():
            task = text.bundled(name)
            for selection in ("random", "one draw for all"):
                asked = text.questions(task, k, text.Prompting(selection), n)
                pieces = [asked[i : i + text.PIECE] for i in range(0, len(asked), text.PIECE)]
                start, used = time.perf_counter(), time.process_time()
                list(workers.map(lambda piece: text.answer_piece(lm, piece), pieces))
                print(
                    f"{name}, {selection}: {len(asked)} questions at k = {k} in "
                    f"{time.perf_counter() - start:.1f} s ({time.process_time() - used:.1f} s of "
                    "processor time)"
                )


if __name__ == "__main__":
    main()
