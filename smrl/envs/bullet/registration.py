"""The Gymnasium ids of the PyBullet tasks."""

import gymnasium

STEPS = 1000  # of an episode
PLANAR = {
    "HopperMuJoCoEnv-v0": "hopper",
    "Walker2DMuJoCoEnv-v0": "walker2d",
    "HalfCheetahMuJoCoEnv-v0": "half_cheetah",
}
ANT = "AntMuJoCoEnv-v0"
IDS = (*PLANAR, ANT)


def register() -> None:
    """Make the ids known that are not known yet: Gymnasium warns of an id that is given twice."""
    for id in IDS:
        if id in gymnasium.registry:
            continue
        if id == ANT:
            gymnasium.register(id, entry_point="smrl.envs.bullet.ant:AntEnv", max_episode_steps=STEPS)
        else:
            gymnasium.register(
                id,
                entry_point="smrl.envs.bullet.planar:PlanarEnv",
                max_episode_steps=STEPS,
                kwargs={"robot": PLANAR[id]},
            )


register()
