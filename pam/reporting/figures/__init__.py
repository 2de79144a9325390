"""Figures; `pam.reporting.figures.draw.KINDS` has them all."""
