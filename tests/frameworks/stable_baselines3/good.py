"""What callbacks and policies of stable_baselines3 may do."""

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy


class Rewards(BaseCallback):
    def _on_step(self):
        self.total += self.locals["rewards"].sum().item()  # numpy
        return True

    def _on_rollout_end(self):
        self.logger.record("rollout/value", self.model.policy.bias.item())


class Plain(ActorCriticPolicy):
    def _predict(self, observation, deterministic=False):
        return self.get_distribution(observation).get_actions(deterministic=deterministic)


class Steps(PPO):
    def collect_rollouts(self, env, callback, rollout_buffer, n_rollout_steps):
        print(self.num_timesteps / self.n_epochs)
        return super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)
