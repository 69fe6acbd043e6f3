"""How numbers and names are written in figures and tables."""


def number(value: float, size: float | None = None) -> str:
    """A number with as many decimals as its size (or that of a given number) deserves.

    >>> number(-1234.5), number(-52.34), number(0.953), number(3.2, size=150)
    ('−1,234', '−52.3', '0.95', '3')
    """
    size = abs(value if size is None else size)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:z,.{digits}f}".replace("-", "−")


def reuse_text(reuse: str) -> str:
    """A reuse schedule in words.

    >>> reuse_text("10"), reuse_text("10:300000,1")
    ('10', '10 until 300,000, then 1')
    """
    *pieces, last = reuse.split(",")
    steps = [f"{times} until {int(until):,}" for times, until in (piece.split(":") for piece in pieces)]
    return ", then ".join([*steps, last])


def variant_text(variant: str) -> str:
    """A variant of an algorithm in words.

    >>> variant_text("sac-fresh10-reset200000")
    'SAC fresh10 reset200000'
    """
    algorithm, *knobs = variant.split("-")
    return " ".join([algorithm.upper(), *knobs])


def label(variant: str, reuse: str) -> str:
    """The name of a curve.

    >>> label("sac", "10")
    'SAC, reuse 10'
    """
    return f"{variant_text(variant)}, reuse {reuse_text(reuse)}"
