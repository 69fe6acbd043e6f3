"""Images of a world, by PyBullet's software renderer, which needs neither a screen nor a GPU."""

from dataclasses import dataclass

import numpy as np

from smrl.envs.suites.bullet.world import World

WIDTH, HEIGHT = 480, 360
FIELD_OF_VIEW, NEAR, FAR = 45.0, 0.1, 100.0
LIGHT = (1, -2, 4)


@dataclass(frozen=True)
class View:
    """Camera position relative to the torso, which it follows at a constant height."""

    height: float
    distance: float
    yaw: float = 0.0
    pitch: float = -12.0


def picture(world: World, view: View) -> np.ndarray:
    """Render an image, uint8 (height, width, 3)."""
    bullet = world.bullet
    x, y, _ = world.torso_position()
    target = x, y, view.height
    image = bullet.getCameraImage(
        WIDTH,
        HEIGHT,
        bullet.computeViewMatrixFromYawPitchRoll(target, view.distance, view.yaw, view.pitch, roll=0, upAxisIndex=2),
        bullet.computeProjectionMatrixFOV(FIELD_OF_VIEW, WIDTH / HEIGHT, NEAR, FAR),
        lightDirection=LIGHT,
        shadow=0,
        renderer=bullet.ER_TINY_RENDERER,
        physicsClientId=world.client,
    )[2]
    return np.array(image, np.uint8).reshape(HEIGHT, WIDTH, 4)[..., :3].copy()
