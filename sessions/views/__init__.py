"""The screens: each module finds, calls and renders one of them."""
