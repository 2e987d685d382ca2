"""Policies, callbacks and algorithms of one's own: on-policy, off-policy, and a prediction."""

import gymnasium
import numpy as np
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy

ROLLOUTS, STEPS, BATCH, EPOCHS = 3, 8, 4, 2
FILLED, PREDICTED = 9, 7
COUNTS = {
    # For each step of the environment; for each batch of the epochs after a rollout.
    "micro-batch": [ROLLOUTS * STEPS, ROLLOUTS * EPOCHS * STEPS // BATCH],
    "step": [6],
    "evaluation-batch": [PREDICTED],
    "epoch": [ROLLOUTS],
    "once": [1],
}


class Line(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 5
        return self.observation_space.sample(), {}

    def step(self, action):
        self.left -= 1
        return self.observation_space.sample(), float(action), self.left == 0, False, {}


class Policy(ActorCriticPolicy):
    def evaluate_actions(self, obs, actions):
        return super().evaluate_actions(obs, actions)

    def predict_values(self, obs):
        return super().predict_values(obs)

    def _predict(self, observation, deterministic=False):
        return super()._predict(observation, deterministic)


class Watch(BaseCallback):
    def _on_step(self):
        self.seen = self.num_timesteps
        return True

    def _on_rollout_end(self):
        self.values = self.model.rollout_buffer.values.mean()


class Watched(PPO):
    def train(self):
        super().train()


class Quiet(DQN):
    def train(self, gradient_steps, batch_size=100):
        super().train(gradient_steps, batch_size)


def main():
    known = {"n_steps": STEPS, "batch_size": BATCH, "n_epochs": EPOCHS, "device": "cpu"}
    model = Watched(Policy, Line(), **known)
    model.learn(ROLLOUTS * STEPS, callback=Watch())
    observation, _ = Line().reset()
    for _ in range(PREDICTED):
        model.predict(observation)
    Quiet("MlpPolicy", Line(), learning_starts=FILLED, device="cpu", buffer_size=100).learn(32)
