"""Latent-attention sequence-to-sequence models, composed from independent components.

A model is one answer to each of these questions (a folder each, a file per answer):

- `scores`: how well does source position a fit the decoder's query, e_t(a)?
- `windows`: which positions does a step consider at all?
- `distributions`: how do scores become a distribution over positions?
- `couplings`: how does that distribution depend on the previous alignment?
- `latents`: which vectors besides the alignment are latent: contexts, or one for the sentence?
- `marginals`: where is the position summed out: at the decoder's input or at its output?
- `feedbacks`: which alignment feeds the next decoder state?
- `inferences`: which alignments, given the whole target, is a variational bound trained by?
- `estimators`: how is that bound's expectation computed: enumerated, or from a draw?

`seq2seq.Seq2Seq.step` puts the answers together in the order of Figure 1 of Shankar & Sarawagi
(2019), in log space: it is the definition that every faster path is tested against.
"""
