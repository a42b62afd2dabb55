"""The hooks of PyTorch 2: functions of PyTorch that ms-profiler wraps. Each file has one concern, such as memory."""
