"""A module of the project."""


class Callback:
    def after_batch(self):
        raise NotImplementedError


class F:
    @staticmethod
    def binary_cross_entropy(x, y):
        return x - y
