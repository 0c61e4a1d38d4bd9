"""What the kernel's own figures say of the queues before accept(): how deep, how often full, what was refused."""

from sojourn.explain.kernel.queues import kernel
from sojourn.explain.kernel.result import Finding, KernelResult

__all__ = ["Finding", "KernelResult", "kernel"]
