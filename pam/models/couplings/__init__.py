"""Couplings of the alignment distribution to the previous alignment.

Shankar & Sarawagi (2019), section 2.3.1:
prior_t(a) = sum_a' postr_{t-1}(a') softmax_a(e_t(a) + k(a, a')).
"""
