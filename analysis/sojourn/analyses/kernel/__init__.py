"""Read the kernel's own figures about the queues before accept(): depth, overflows, refusals."""
