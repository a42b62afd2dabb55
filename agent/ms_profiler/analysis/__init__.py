"""The analysis of a recording: store -> tables -> metrics -> writers and report. It runs outside of the job."""
