"""Small scripts for people who change Interlock; nothing in the package uses them."""
