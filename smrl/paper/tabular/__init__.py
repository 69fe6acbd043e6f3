"""Tabular reinforcement learning: Q-learning and Q-SMR on grid worlds. Importing it registers their Gymnasium ids.

The environments apply their time limits themselves, because these depend on options.
"""

import gymnasium

gymnasium.register("smrl/CliffWalking-v0", entry_point="smrl.paper.tabular.grid_world:CliffWalking")
gymnasium.register("smrl/maze-v0", entry_point="smrl.paper.tabular.maze:MazeEnv")
gymnasium.register(
    "smrl/maze-random-20x20-plus-v0",
    entry_point="smrl.paper.tabular.maze:MazeEnv",
    kwargs={"size": 20, "plus": True},
)
