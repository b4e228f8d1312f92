"""The commands of `assay`, a file each; `experiments.cli` lists them."""
