"""The version of this product."""

VERSION = "0.1.0"
