"""Control of recording while the job runs."""
