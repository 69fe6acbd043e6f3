"""The Gymnasium ids of the PyBullet tasks; importing this module does not import Gymnasium."""

STEPS = 1000  # time limit of an episode
PLANAR = {
    "HopperMuJoCoEnv-v0": "hopper",
    "Walker2DMuJoCoEnv-v0": "walker2d",
    "HalfCheetahMuJoCoEnv-v0": "half_cheetah",
}
ANT = "AntMuJoCoEnv-v0"
IDS = (*PLANAR, ANT)


def register() -> None:
    """Register the ids that Gymnasium does not know yet; it warns if an id is registered twice."""
    import gymnasium

    for id in IDS:
        if id in gymnasium.registry:
            continue
        if id == ANT:
            gymnasium.register(id, entry_point="smrl.envs.suites.bullet.ant:AntEnv", max_episode_steps=STEPS)
        else:
            gymnasium.register(
                id,
                entry_point="smrl.envs.suites.bullet.planar:PlanarEnv",
                max_episode_steps=STEPS,
                kwargs={"robot": PLANAR[id]},
            )
