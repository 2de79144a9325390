"""Latent-attention sequence-to-sequence models, composed of independent components.

A model gives one answer to each of these questions. Each question has a file, and each answer a
class. The names of the answers in YAML, and their classes, are declared in `options`:

- `scores`: how well does source position a fit the decoder's query, e_t(a)?
- `windows`: which positions does a step consider at all?
- `distributions`: how do scores become a distribution over positions?
- `couplings`: how does that distribution depend on the previous alignment?
- `latents`: which vectors besides the alignment are latent: contexts, or one for the sentence?
- `marginalization`: where is the position summed out: at the decoder's input or at its output?
- `input_feeding`: which alignment feeds the next decoder state?
- `variational`: which alignments, given the whole target, is a bound trained by, and how is its
  expectation computed: exactly, or from a draw?
- `copying`: can symbols of the source be written as they are?

`interfaces` has the abstract class of each component. `head.AttentionHead` puts the components
together in the order of Figure 1 of Shankar & Sarawagi (2019), in log space. Training, search and
analysis run its `step` and `update`. Each step gives a distribution of the next symbol,
`outputs.TokenDistribution`; `copying.CopyMixture` adds copied symbols to it. Bayes' rule (equations
12 and 13) is `posterior.bayes`. The speed comes from `kernels`.
"""
