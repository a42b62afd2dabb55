"""What ran: kernels of the host and tasks of devices, as one stream each."""
