"""A worker process with jobs that cost nothing."""

import os

from models import worker


def refuse():
    raise ValueError("no such thing")


def fail():
    raise KeyError("a secret")


def hang():
    os.read(os.pipe()[0], 1)


JOBS = {"pid": os.getpid, "double": lambda x: 2 * x, "refuse": refuse, "fail": fail, "hang": hang}

if __name__ == "__main__":
    worker.main(JOBS)
