"""A policy and an algorithm of stable_baselines3 that wait for the device in every step."""

import numpy as np
import torch
from stable_baselines3 import SAC
from stable_baselines3.common.policies import ActorCriticPolicy


class Masked(ActorCriticPolicy):
    def evaluate_actions(self, obs, actions):
        if (actions < 0).any():  # expect: AMP103
            actions = actions.clamp(min=0)
        mask = torch.ones(actions.shape[0]).to(actions.device)  # expect: AMP501
        values, log_prob, entropy = super().evaluate_actions(obs, actions)
        return values * mask, log_prob, entropy


class Logged(SAC):
    def train(self, gradient_steps, batch_size=64):
        losses = []
        for _ in range(gradient_steps):
            data = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            loss = self.critic_loss(data)
            self.critic.optimizer.zero_grad()
            loss.backward()
            self.critic.optimizer.step()
            losses.append(loss.item())  # expect: AMP101
        self.logger.record("train/loss", np.mean(losses))
