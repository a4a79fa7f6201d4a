"""Tables, figures and reports from finished run folders."""
