"""Latent-attention sequence-to-sequence models, composed from independent components.

A model is one answer to each of these questions: a file each, a class per answer. What YAML may
write of them, and which class computes an answer, is declared in `options`:

- `scores`: how well does source position a fit the decoder's query, e_t(a)?
- `windows`: which positions does a step consider at all?
- `distributions`: how do scores become a distribution over positions?
- `couplings`: how does that distribution depend on the previous alignment?
- `latents`: which vectors besides the alignment are latent: contexts, or one for the sentence?
- `marginalization`: where is the position summed out: at the decoder's input or at its output?
- `input_feeding`: which alignment feeds the next decoder state?
- `variational`: which alignments, given the whole target, is a bound trained by, and how is its
  expectation computed: enumerated, or from a draw?

`seq2seq.Seq2Seq` puts them together in the order of Figure 1 of Shankar & Sarawagi (2019), in log
space. Training, search and analysis run its `step` and `update`, which meet in a distribution of
the next symbol, `outputs.TokenDistribution`; `copying.CopyMixture` adds what is copied to it.
Bayes' rule (equations 12 and 13) is `posterior.bayes`. Speed comes from `kernels`, `output_kernels`
and `search_layer`.
"""
