import numpy as np

from smrl.randomness import Purpose, Stream


def test_a_step_does_not_depend_on_earlier_draws() -> None:
    stream = Stream(7, Purpose.REPLAY)
    stream.at(3).integers(10, size=3)  # an odd number: half of the last word is kept for the next integer
    new = np.random.Generator(np.random.Philox(key=[7, Purpose.REPLAY], counter=[0, 0, 0, 5]))
    np.testing.assert_array_equal(stream.at(5).integers(10, size=9), new.integers(10, size=9))
