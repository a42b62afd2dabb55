"""Everything that runs elsewhere: store -> tables -> metrics -> writers and report."""
