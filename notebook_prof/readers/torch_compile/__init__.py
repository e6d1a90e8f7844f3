"""What ``torch.compile`` logs to the folder that ``TORCH_TRACE`` names: the trace that tlparse reads."""

from .reader import TorchCompileReader

__all__ = ["TorchCompileReader"]
