//! The neural network: ids of word pieces in, embeddings out.

use rten::{Model, ModelOptions, NodeId, ValueOrView};
use rten_tensor::prelude::*;
use rten_tensor::{NdTensor, NdTensorView};

/// The model and the ids of its inputs and output.
pub(super) struct Network {
    model: Model,
    pieces: NodeId,
    mask: NodeId,
    kinds: NodeId,
    output: NodeId,
}

impl Network {
    /// Loads a model in ONNX format. The error says what is wrong with it.
    pub(super) fn read(bytes: Vec<u8>) -> Result<Self, String> {
        let model = ModelOptions::with_all_ops().prepack_weights(true).load(bytes);
        let model = model.map_err(|error| error.to_string())?;
        let node_id = |name: &str| model.node_id(name).map_err(|error| error.to_string());
        let (pieces, mask, kinds) =
            (node_id("input_ids")?, node_id("attention_mask")?, node_id("token_type_ids")?);
        let output = node_id("last_hidden_state")?;
        Ok(Self { model, pieces, mask, kinds, output })
    }

    /// Embeds texts, each given as the ids of its word pieces. Shorter texts are padded to the
    /// longest.
    pub(super) fn run(&self, texts: &[&[u16]]) -> Result<Vec<Vec<f32>>, String> {
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or_default();
        let shape = [texts.len(), longest];
        let at = |[row, column]: [usize; 2]| texts[row].get(column);
        let pieces =
            NdTensor::from_fn(shape, |position| at(position).map_or(0, |piece| i32::from(*piece)));
        let mask = NdTensor::from_fn(shape, |position| i32::from(at(position).is_some()));
        let kinds = NdTensor::<i32, 2>::zeros(shape);
        let inputs: Vec<(NodeId, ValueOrView<'_>)> = vec![
            (self.pieces, pieces.view().into()),
            (self.mask, mask.view().into()),
            (self.kinds, kinds.view().into()),
        ];
        let outputs =
            self.model.run(inputs, &[self.output], None).map_err(|error| error.to_string())?;
        let states = outputs.first().ok_or("no output")?;
        let states: NdTensorView<'_, f32, 3> =
            states.try_into().map_err(|error| format!("{error}"))?;
        Ok(texts
            .iter()
            .enumerate()
            .map(|(row, text)| mean(states.slice(row), text.len()))
            .collect())
    }
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

/// The normalized mean of the first `count` rows. Their sum has the same direction, so no
/// division is needed.
fn mean(rows: NdTensorView<'_, f32, 2>, count: usize) -> Vec<f32> {
    let mut sum = vec![0.0_f32; rows.size(1)];
    for row in 0..count {
        for (total, x) in sum.iter_mut().zip(rows.slice(row).iter()) {
            *total += x;
        }
    }
    let norm = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
    sum.iter_mut().for_each(|x| *x /= norm);
    sum
}
