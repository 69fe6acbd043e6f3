"""Gymnasium ids of the grid worlds; their time limits are in the classes, because they depend on options."""

import gymnasium

gymnasium.register("smrl/CliffWalking-v0", entry_point="smrl.paper.tabular.cliffwalking:CliffWalking")
gymnasium.register("smrl/maze-v0", entry_point="smrl.paper.tabular.maze:MazeEnv")
gymnasium.register(
    "smrl/maze-random-20x20-plus-v0",
    entry_point="smrl.paper.tabular.maze:MazeEnv",
    kwargs={"size": 20, "plus": True},
)
