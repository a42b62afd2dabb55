"""The analysis, which runs outside of the job: store -> tables -> metrics -> writers and report."""
