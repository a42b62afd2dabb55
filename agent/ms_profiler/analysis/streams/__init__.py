"""Kernel streams: the kernels that ran on the host, and the tasks that ran on devices."""
