"""The keywords of `smrl.train`, and defaults. Generated from the dataclasses of settings by tests/test_keywords.py."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict


class Keywords(TypedDict, total=False):
    """Settings, options and hyperparameters of a run."""

    reuse: int | str
    """Updates per batch (the paper's M): a number, 10:300000,1 (10 until step 300,000, then 1), auto, or module:rule.
    auto:20 chooses up to 20 by the TD error on held-out episodes (docs/reuse-auto.md); 20 is the default. budget:2h,
    also 30m or 90s, chooses so that the run ends in time. With real_time also the word realtime: as many as fit into
    the control period."""
    seed: int
    """Seed of all random numbers of the run."""
    steps: int
    """Environment steps to train for."""
    warmup: int
    """Environment steps before learning starts."""
    warmup_actions: Literal["uniform", "policy"]
    """Actions during the warm-up: uniformly random, or those of the untrained policy."""
    batch_size: int
    """Transitions per batch."""
    fresh_batches: int
    """Batches drawn from the replay memory per step (the update-to-data ratio G); each is updated on M times."""
    gamma: float
    """Discount factor."""
    reward_scale: float
    """Factor on the rewards that the agent learns from; evaluations report unscaled rewards."""
    normalise_observations: bool
    """Normalise observations by their running mean and standard deviation, and clip them at ±10."""
    normalise_rewards: bool
    """Divide the rewards that the agent learns from by the standard deviation of the running discounted return."""
    n_step: int
    """Rewards in an n-step return."""
    windows: Literal["partial", "full"]
    """n-step returns at the end of an episode: shorten them (partial) or draw only complete ones (full)."""
    envs: int
    """Environments to collect from in parallel; steps are counted over all of them together."""
    action_repeat: int
    """Environment steps for which each action is repeated."""
    max_episode_steps: int | None
    """Environment steps after which an episode is truncated; by default only the environment's own limit applies."""
    pad_observations: int | None
    """Number of zeros to append to every observation; by default none."""
    image_size: int | None
    """Width and height in pixels of the images of dmc-pixels tasks and Atari games; by default 84."""
    capacity: int
    """Transitions that the replay memory holds."""
    data: Sequence[str] | None
    """Earlier data to learn from: minari:ID, a Minari dataset, an .npz file, a run or several; by default none."""
    data_share: float | None
    """Fraction of each batch that is drawn from the data; by default data and replay memory are drawn from as one."""
    from_run: str | None
    """Run whose networks and optimisers this one starts with, those of its newest checkpoint; by default new ones."""
    hold_out: bool
    """Keep 1 episode in 16 from training for 10,000 steps, to measure on; reuse auto does so by itself."""
    reset_every: int | None
    """Environment steps between two resets of the agent, which keep the replay memory; by default there are none."""
    average_policy: float | None
    """Act greedily (in evaluations and exports) with a running average of the policy's parameters, to which every
    learning step adds the newest ones with this weight, such as 0.003; by default with the newest policy itself."""
    eval_every: int
    """Environment steps between two evaluations."""
    eval_episodes: int
    """Episodes of the greedy policy per evaluation. With real_time the default is 1, and 0 evaluates never."""
    bias_every: int | None
    """Environment steps between two measurements of the estimation bias, a multiple of eval_every; by default none."""
    bias_original: bool
    """Measure the estimation bias as the authors of REDQ did: temperature 0.2, normalised by at least 10."""
    real_time: bool
    """Train on a device: one environment, which never waits for learning within an episode (docs/robots.md)."""
    control_period: float | None
    """Seconds per environment step in real time; by default metadata["control_period"] of the environment."""
    greedy_every: int | None
    """Length in episodes of a cycle in real time, whose last eval_episodes are greedy; by default 10."""
    runs: str | Path
    """Folder of all runs."""
    name: str | None
    """A word to add to the name of a new run's folder. It is no setting: the same settings are still the same run."""
    threads: int | None
    """CPU threads of each run; by default one per core for a single run. A resumed run keeps its number."""
    quiet: bool
    """Print nothing but errors."""
    checkpoint_seconds: float
    """Seconds between two checkpoints."""
    log_seconds: float
    """Seconds between two rows of training.csv, TensorBoard and Weights & Biases; every evaluation adds one."""
    env_workers: Literal["none", "process"]
    """Processes of the environments: none of their own, or one each, for simulators that are slow."""
    env_timeout: float | None
    """Seconds after which a reset or step in a process of its own counts as hanging; by default there is no limit."""
    env_restarts: int
    """How often processes of environments that die or hang are replaced; their episodes count as truncated."""
    max_minutes: float | None
    """Minutes after which the run is saved and stopped; the same command continues it. By default there is no limit."""
    stop_at: float | None
    """Mean return of an evaluation at which the run is saved and stopped; by default none."""
    diagnostics: bool
    """Add norms, dormant units, effective rank and values of the networks to training.csv (docs/diagnostics.md)."""
    wandb: str | None
    """Weights & Biases project to log to; by default none."""
    activation: Literal["relu", "leaky-relu", "elu", "gelu", "silu", "tanh"]
    """Nonlinearity between the layers of all networks."""
    learning_rate: float
    """Learning rate of Adam, for every network whose rate is not set by a more specific flag."""
    learning_rate_factor: float
    """Factor on all learning rates; 10 with reuse 1 is SAC-LR of the paper."""
    adam_beta1: float
    """Adam's decay rate of the mean of the gradients."""
    adam_beta2: float
    """Adam's decay rate of the mean of the squared gradients."""
    adam_epsilon: float
    """Adam's constant in the denominator."""
    weight_decay: float
    """Weight λ of the decay of the parameters of actor and critics, in the form of weight_decay_form."""
    weight_decay_form: Literal["l2", "decoupled"]
    """Decay of the parameters: add λθ to the gradient (L2), or subtract it from θ with the learning rate (AdamW)."""
    gradient_clip: float | None
    """Largest norm of the gradient of the actor, and of all critics together; not clipped by default."""
    network: Literal["mlp", "simba"]
    """Architecture of actor and critics: perceptrons, or SimBa's residual networks with their own initial weights. Not
    for drqv2, dqn."""
    actor_hidden: Sequence[int]
    """Sizes of the actor's hidden layers; of SimBa's, one width per residual block. Not for dqn."""
    critic_hidden: Sequence[int]
    """Sizes of each critic's hidden layers; of SimBa's, one width per residual block. Not for dqn."""
    initialisation: Literal["torch", "small-last", "xavier", "orthogonal"]
    """Initial weights: PyTorch's default; the same with critics near 0; Xavier or orthogonal with zero biases. Not for
    drqv2, dqn."""
    actor_learning_rate: float | None
    """Learning rate of the actor; by default that of learning_rate. Not for drqv2, dqn."""
    critic_learning_rate: float | None
    """Learning rate of the critics; by default that of learning_rate. Not for drqv2, dqn."""
    tau: float
    """Weight τ of the online network in every update of its target network. Not for dqn."""
    exploration_noise: float
    """Standard deviation of the Gaussian exploration noise, in actions scaled to [-1, 1]. Not for drqv2, dqn."""
    layer_norm: bool
    """Layer normalisation in the critics; with dropout this is DroQ. Not for drqv2, dqn."""
    dropout: float
    """Dropout rate in the critics and their target networks; DroQ uses 0.01. Not for drqv2, dqn."""
    weight_projection: bool
    """Divide the weights of every hidden unit of the critics by their norm, at the start and after every step. It is
    harmless only where normalisation undoes the scale of a layer, so it needs layer_norm or network simba. Not for
    drqv2, dqn."""
    target_noise: float
    """Standard deviation of the noise on the target policy's actions (target policy smoothing). Only for td3, darc."""
    noise_clip: float
    """Bound of the noise on the target policy's actions. Only for td3, darc, drqv2."""
    delay: int
    """Learning steps between two updates of the actor, and in TD3 of the target networks. Only for td3, sac, xqc."""
    temperature: Literal["auto"] | float
    """Weight α of the entropy: a number, or auto to learn it. Only for sac, tqc, redq, xqc, sac_pixels."""
    initial_temperature: float
    """Temperature α at which learning it starts. Only for sac, tqc, redq, xqc, sac_pixels."""
    temperature_learning_rate: float | None
    """Learning rate of the temperature; by default that of learning_rate. Only for sac, tqc, redq, xqc, sac_pixels."""
    temperature_loss: Literal["alpha", "log-alpha"]
    """Factor of the missing entropy in the temperature's loss: α, or log α. Only for sac, tqc, redq, xqc,
    sac_pixels."""
    target_entropy: float | None
    """Target entropy of the temperature; by default target_entropy_factor times the number of action dimensions. Only
    for sac, tqc, redq, xqc, sac_pixels."""
    target_entropy_factor: float
    """Target entropy per action dimension; SimBa and its successors use -0.5. Only for sac, tqc, redq, xqc,
    sac_pixels."""
    log_std_min: float
    """Lower bound of the logarithm of the policy's standard deviation. Only for sac, tqc, redq, xqc, sac_pixels."""
    log_std_max: float
    """Upper bound of the logarithm of the policy's standard deviation. Only for sac, tqc, redq, xqc, sac_pixels."""
    log_prob_floor: float
    """Number ε in log(1 - a² + ε) of the policy's log-probability; 0 selects the exact, stable form. Only for sac, tqc,
    redq, xqc, sac_pixels."""
    exploration: Literal["sample", "mean-plus-noise"]
    """Actions while training: samples of the policy, or its mean plus Gaussian noise as in the authors' code. Only for
    sac, tqc, redq, xqc, sac_pixels."""
    target_interval: int
    """Learning steps between two updates of the target critics; at such a step every reuse makes one. Only for sac."""
    nu: float
    """Weight ν of the smaller of the two actors' values in the target. Only for darc."""
    regularisation: float
    """Weight λ of the squared difference of the two critics in their losses. Only for darc."""
    acting: Literal["best-of-four", "own-critic"]
    """Choose between the actors' actions by both critics (pseudo-code) or by each actor's critic (authors' code). Only
    for darc."""
    critics: int
    """Number of critics. Only for tqc, redq."""
    atoms: int
    """Quantiles (atoms) of each critic. Only for tqc, xqc."""
    dropped: int
    """Number of largest atoms that the target leaves out, per critic. Only for tqc."""
    huber: float
    """Error κ above which the quantile Huber loss is linear. Only for tqc."""
    order: Literal["critics-first", "together", "actor-first"]
    """Order of the steps of an update: the actor under the new critics; all gradients before any step; or temperature,
    actor, critics, as in the pseudo-code. Only for tqc, redq."""
    subset: int
    """Number of critics drawn at random for every target. Only for redq."""
    critic_loss: Literal["sum", "mean"]
    """Loss of the critics: the sum of their squared errors, or the mean as in the authors' code. Only for redq."""
    first_temperature: float | None
    """Temperature until its first update; by default initial_temperature, where learning it starts. Only for redq."""
    limit: float
    """Largest return z_n, the negative of the smallest; normalise_rewards brings returns into this range. Only for
    xqc."""
    filters: Sequence[int]
    """Filters of the convolutions. Only for sac_pixels, drqv2, dqn."""
    kernels: Sequence[int]
    """Sides of the convolutions' kernels, in pixels. Only for sac_pixels, drqv2, dqn."""
    strides: Sequence[int]
    """Strides of the convolutions, in pixels. Only for sac_pixels, drqv2, dqn."""
    augmentation: Literal["none", "reuse", "batch"]
    """Random shifts of the images: none, new ones in every reuse of a batch, or the same in all its reuses. Only for
    sac_pixels, drqv2."""
    shift: int
    """Largest random shift of an image in each direction, in pixels. Only for sac_pixels, drqv2."""
    features: int
    """Number of features that the encoder makes of an image. Only for sac_pixels, drqv2."""
    first_noise: float
    """Standard deviation of the exploration noise at the first step. Only for drqv2."""
    last_noise: float
    """Standard deviation of the exploration noise from noise_steps on. Only for drqv2."""
    noise_steps: int
    """Agent steps over which the exploration noise falls. Only for drqv2."""
    learn_every: int
    """Agent steps per learning step. Only for drqv2, dqn."""
    hidden: Sequence[int]
    """Sizes of the hidden layers, which follow the convolutions where there are images. Only for dqn."""
    target_every: int
    """Agent steps between two copies of the network to the target network, a multiple of learn_every. Only for dqn."""
    epsilon: float
    """Probability ε of a random action after it has fallen from 1. Only for dqn."""
    epsilon_steps: int | None
    """Agent steps over which ε falls from 1; by default a tenth of the run. Only for dqn."""


# Defaults of the hyperparameters, for reports, which do not import JAX
HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "ddpg": {
        "activation": "relu",
        "learning_rate": 0.0003,
        "learning_rate_factor": 1.0,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-08,
        "weight_decay": 0.0,
        "weight_decay_form": "l2",
        "gradient_clip": None,
        "network": "mlp",
        "actor_hidden": (256, 256),
        "critic_hidden": (256, 256),
        "initialisation": "torch",
        "actor_learning_rate": None,
        "critic_learning_rate": None,
        "tau": 0.005,
        "exploration_noise": 0.1,
        "layer_norm": False,
        "dropout": 0.0,
        "weight_projection": False,
    },
    "td3": {
        "activation": "relu",
        "learning_rate": 0.0003,
        "learning_rate_factor": 1.0,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-08,
        "weight_decay": 0.0,
        "weight_decay_form": "l2",
        "gradient_clip": None,
        "network": "mlp",
        "actor_hidden": (256, 256),
        "critic_hidden": (256, 256),
        "initialisation": "torch",
        "actor_learning_rate": None,
        "critic_learning_rate": None,
        "tau": 0.005,
        "exploration_noise": 0.1,
        "layer_norm": False,
        "dropout": 0.0,
        "weight_projection": False,
        "target_noise": 0.2,
        "noise_clip": 0.5,
        "delay": 2,
    },
    "sac": {
        "activation": "relu",
        "learning_rate": 0.0003,
        "learning_rate_factor": 1.0,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-08,
        "weight_decay": 0.0,
        "weight_decay_form": "l2",
        "gradient_clip": None,
        "network": "mlp",
        "actor_hidden": (256, 256),
        "critic_hidden": (256, 256),
        "initialisation": "torch",
        "actor_learning_rate": None,
        "critic_learning_rate": None,
        "tau": 0.005,
        "exploration_noise": 0.1,
        "layer_norm": False,
        "dropout": 0.0,
        "weight_projection": False,
        "temperature": "auto",
        "initial_temperature": 1.0,
        "temperature_learning_rate": None,
        "temperature_loss": "alpha",
        "target_entropy": None,
        "target_entropy_factor": -1.0,
        "log_std_min": -20.0,
        "log_std_max": 2.0,
        "log_prob_floor": 0.0,
        "exploration": "sample",
        "delay": 1,
        "target_interval": 1,
    },
    "darc": {
        "activation": "relu",
        "learning_rate": 0.001,
        "learning_rate_factor": 1.0,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-08,
        "weight_decay": 0.0,
        "weight_decay_form": "l2",
        "gradient_clip": None,
        "network": "mlp",
        "actor_hidden": (400, 300),
        "critic_hidden": (400, 300),
        "initialisation": "torch",
        "actor_learning_rate": None,
        "critic_learning_rate": None,
        "tau": 0.005,
        "exploration_noise": 0.1,
        "layer_norm": False,
        "dropout": 0.0,
        "weight_projection": False,
        "target_noise": 0.2,
        "noise_clip": 0.5,
        "nu": 0.1,
        "regularisation": 0.005,
        "acting": "best-of-four",
    },
    "tqc": {
        "activation": "relu",
        "learning_rate": 0.0003,
        "learning_rate_factor": 1.0,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-08,
        "weight_decay": 0.0,
        "weight_decay_form": "l2",
        "gradient_clip": None,
        "network": "mlp",
        "actor_hidden": (256, 256),
        "critic_hidden": (512, 512, 512),
        "initialisation": "torch",
        "actor_learning_rate": None,
        "critic_learning_rate": None,
        "tau": 0.005,
        "exploration_noise": 0.1,
        "layer_norm": False,
        "dropout": 0.0,
        "weight_projection": False,
        "temperature": "auto",
        "initial_temperature": 1.0,
        "temperature_learning_rate": None,
        "temperature_loss": "log-alpha",
        "target_entropy": None,
        "target_entropy_factor": -1.0,
        "log_std_min": -20.0,
        "log_std_max": 2.0,
        "log_prob_floor": 0.0,
        "exploration": "sample",
        "critics": 5,
        "atoms": 25,
        "dropped": 2,
        "huber": 1.0,
        "order": "critics-first",
    },
    "redq": {
        "activation": "relu",
        "learning_rate": 0.0003,
        "learning_rate_factor": 1.0,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-08,
        "weight_decay": 0.0,
        "weight_decay_form": "l2",
        "gradient_clip": None,
        "network": "mlp",
        "actor_hidden": (256, 256),
        "critic_hidden": (256, 256),
        "initialisation": "torch",
        "actor_learning_rate": None,
        "critic_learning_rate": None,
        "tau": 0.005,
        "exploration_noise": 0.1,
        "layer_norm": False,
        "dropout": 0.0,
        "weight_projection": False,
        "temperature": "auto",
        "initial_temperature": 1.0,
        "temperature_learning_rate": None,
        "temperature_loss": "alpha",
        "target_entropy": None,
        "target_entropy_factor": -1.0,
        "log_std_min": -20.0,
        "log_std_max": 2.0,
        "log_prob_floor": 0.0,
        "exploration": "sample",
        "critics": 10,
        "subset": 2,
        "critic_loss": "sum",
        "order": "critics-first",
        "first_temperature": None,
    },
    "xqc": {
        "activation": "relu",
        "learning_rate": 0.0003,
        "learning_rate_factor": 1.0,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-08,
        "weight_decay": 0.0,
        "weight_decay_form": "l2",
        "gradient_clip": None,
        "network": "mlp",
        "actor_hidden": (256, 256, 256, 256),
        "critic_hidden": (512, 512, 512, 512),
        "initialisation": "torch",
        "actor_learning_rate": None,
        "critic_learning_rate": None,
        "tau": 0.005,
        "exploration_noise": 0.1,
        "layer_norm": False,
        "dropout": 0.0,
        "weight_projection": False,
        "temperature": "auto",
        "initial_temperature": 0.01,
        "temperature_learning_rate": None,
        "temperature_loss": "alpha",
        "target_entropy": None,
        "target_entropy_factor": -0.5,
        "log_std_min": -10.0,
        "log_std_max": 2.0,
        "log_prob_floor": 0.0,
        "exploration": "sample",
        "atoms": 101,
        "limit": 5.0,
        "delay": 3,
    },
    "sac_pixels": {
        "activation": "relu",
        "learning_rate": 0.0003,
        "learning_rate_factor": 1.0,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-08,
        "weight_decay": 0.0,
        "weight_decay_form": "l2",
        "gradient_clip": None,
        "network": "mlp",
        "actor_hidden": (512, 512),
        "critic_hidden": (512, 512),
        "initialisation": "torch",
        "actor_learning_rate": None,
        "critic_learning_rate": None,
        "tau": 0.005,
        "exploration_noise": 0.1,
        "layer_norm": False,
        "dropout": 0.0,
        "weight_projection": False,
        "temperature": "auto",
        "initial_temperature": 1.0,
        "temperature_learning_rate": None,
        "temperature_loss": "alpha",
        "target_entropy": None,
        "target_entropy_factor": -1.0,
        "log_std_min": -20.0,
        "log_std_max": 2.0,
        "log_prob_floor": 0.0,
        "exploration": "sample",
        "filters": (32, 32, 32, 32),
        "kernels": (7, 5, 3, 3),
        "strides": (2, 2, 2, 2),
        "augmentation": "none",
        "shift": 4,
        "features": 200,
    },
    "drqv2": {
        "activation": "relu",
        "learning_rate": 0.0001,
        "learning_rate_factor": 1.0,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-08,
        "weight_decay": 0.0,
        "weight_decay_form": "l2",
        "gradient_clip": None,
        "filters": (32, 32, 32, 32),
        "kernels": (3, 3, 3, 3),
        "strides": (2, 1, 1, 1),
        "augmentation": "reuse",
        "shift": 4,
        "features": 50,
        "actor_hidden": (1024, 1024),
        "critic_hidden": (1024, 1024),
        "tau": 0.01,
        "first_noise": 1.0,
        "last_noise": 0.1,
        "noise_steps": 100000,
        "noise_clip": 0.3,
        "learn_every": 2,
    },
    "dqn": {
        "activation": "relu",
        "learning_rate": 0.0001,
        "learning_rate_factor": 1.0,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-08,
        "weight_decay": 0.0,
        "weight_decay_form": "l2",
        "gradient_clip": None,
        "filters": (32, 64, 32),
        "kernels": (8, 4, 3),
        "strides": (4, 2, 1),
        "hidden": (256,),
        "learn_every": 4,
        "target_every": 1000,
        "epsilon": 0.01,
        "epsilon_steps": None,
    },
}
