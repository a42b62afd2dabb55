"""Kernels of the host and tasks of devices, each as a stream."""
