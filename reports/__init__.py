"""Read run directories and render them."""
