"""Format of numbers in figures and tables."""


def number(value: float, size: float | None = None) -> str:
    """Format a number with 0 to 2 decimals, fewer for larger numbers; ``size`` decides if given.

    >>> number(-1234.5), number(-52.34), number(0.953), number(3.2, size=150)
    ('−1,234', '−52.3', '0.95', '3')
    """
    size = abs(value if size is None else size)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:z,.{digits}f}".replace("-", "−")
