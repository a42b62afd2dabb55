"""Recording that is asked for while the job runs."""
