//! Options of rotary positions: `rope_parameters`, or `rope_theta` and `rope_scaling` in older files.
use super::options::Options;
use super::parts::{Folder, Keys, LongFactors};
use crate::Result;

pub(crate) fn translate(options: &Options, folder: &Folder, keys: &mut Keys) -> Result<Option<LongFactors>> {
    let scaling = match (options.object("rope_parameters")?, options.object("rope_scaling")?) {
        (Some(new), Some(old)) => {
            new.common(&old).into_iter().try_for_each(|option| new.agree_on(option, &old))?;
            Some(new.merged(&old))
        }
        (new, old) => new.or(old),
    };
    // In newer files, each kind of layer with its own base has its own parameters.
    let nested = scaling.as_ref().filter(|outer| outer.get("full_attention").is_some());
    let (scaling, windowed) = match nested {
        Some(outer) => {
            let (full, windowed) = (outer.object("full_attention")?, outer.object("sliding_attention")?);
            outer.finish(&[])?;
            (full, windowed)
        }
        None => (scaling, None),
    };
    let own = scaling.as_ref();
    for option in ["rope_theta", "partial_rotary_factor"] {
        own.map_or(Ok(()), |own| own.agree_on(option, options))?;
        options.get(option);
    }
    let base = match own.map(|scaling| scaling.number("rope_theta")).transpose()?.flatten() {
        Some(base) => Some(base),
        None => options.number("rope_theta")?,
    };
    let base = options.required("rope_theta", base.or(folder.rope_base))?;
    keys.set("rope.freq_base", base as f32)?;
    windowed_base(options, windowed, keys)?;
    partial(options, scaling.as_ref(), folder, keys)?;
    match scaling {
        Some(scaling) => {
            let factors = kind(options, &scaling, folder, keys)?;
            // A text's positions are the same on all the axes that images have.
            scaling.finish(&["type", "rope_type", "mrope_section", "mrope_interleaved"])?;
            Ok(factors)
        }
        None => Ok(None),
    }
}

/// The base of layers with a window; these are not scaled.
fn windowed_base(options: &Options, windowed: Option<Options>, keys: &mut Keys) -> Result<()> {
    let base = match &windowed {
        Some(windowed) => {
            windowed.only("rope_type", "default", |value| value.as_str() == Some("default"))?;
            let base = windowed.number("rope_theta")?;
            windowed.finish(&[])?;
            base
        }
        None => options.number("rope_local_base_freq")?,
    };
    base.map_or(Ok(()), |base| keys.set("rope.freq_base_swa", base as f32))
}

/// The rotated part of each head.
fn partial(options: &Options, scaling: Option<&Options>, folder: &Folder, keys: &mut Keys) -> Result<()> {
    let option = "partial_rotary_factor";
    let own = scaling.map(|scaling| scaling.number(option)).transpose()?.flatten();
    let Some(factor) = options.number(option)?.or(own).or(folder.partial_rope) else { return Ok(()) };
    if factor == 1.0 {
        return Ok(());
    }
    if folder.partial_rope.is_none() || !(0.0..1.0).contains(&factor) {
        let wanted = if folder.partial_rope.is_some() { "a number from 0 to 1" } else { "1 in this family" };
        return Err(options.wrong(option, factor, wanted));
    }
    let head_dim = keys.metadata.arch_u32("attention.key_length")?;
    keys.set("rope.dimension_count", (f64::from(head_dim) * factor) as u32)
}

fn kind(
    options: &Options,
    scaling: &Options,
    folder: &Folder,
    keys: &mut Keys,
) -> Result<Option<LongFactors>> {
    let name = match scaling.any(&["rope_type", "type"])? {
        Some(option) => scaling.text(option)?.unwrap_or_default(),
        None => "default",
    };
    let number =
        |option: &str| -> Result<f32> { Ok(scaling.required(option, scaling.number(option)?)? as f32) };
    let original = || match scaling.count("original_max_position_embeddings")? {
        Some(context) => Ok(Some(context)),
        None => options.count("max_position_embeddings"),
    };
    match name {
        "default" => return Ok(None),
        // The name in early files.
        "longrope" | "su" if folder.long_rope => {
            return Ok(Some(long_factors(options, scaling, keys)?));
        }
        // The frequencies of heads of which a part is rotated; the family makes them.
        "proportional" if folder.proportional_rope => {
            let part = scaling.required("partial_rotary_factor", scaling.number("partial_rotary_factor")?)?;
            keys.set("rope.rotated_part", part as f32)?;
            return Ok(None);
        }
        "linear" => {}
        "llama3" => {
            keys.set("rope.scaling.low_freq_factor", number("low_freq_factor")?)?;
            keys.set("rope.scaling.high_freq_factor", number("high_freq_factor")?)?;
            let context = scaling.count("original_max_position_embeddings")?;
            let context = scaling.required("original_max_position_embeddings", context)?;
            keys.set("rope.scaling.original_context_length", context)?;
        }
        "yarn" => {
            let context = options.required("max_position_embeddings", original()?)?;
            keys.set("rope.scaling.original_context_length", context)?;
            for (option, key) in [
                ("beta_fast", "yarn_beta_fast"),
                ("beta_slow", "yarn_beta_slow"),
                ("attention_factor", "attn_factor"),
            ] {
                if let Some(value) = scaling.number(option)? {
                    keys.set(&format!("rope.scaling.{key}"), value as f32)?;
                }
            }
            if folder.yarn_mscale
                && let Some(mscale) = scaling.number("mscale_all_dim")?
            {
                // Tables are scaled by the quotient of the two.
                scaling.required("mscale", scaling.number("mscale")?)?;
                let wanted = format!("{mscale}, equal to mscale_all_dim");
                scaling.only("mscale", &wanted, |value| value.as_f64() == Some(mscale))?;
                keys.set("rope.scaling.yarn_log_multiplier", (0.1 * mscale) as f32)?;
            }
            if folder.query_growth {
                let beta = scaling.number("llama_4_scaling_beta")?;
                keys.set_if("attention.temperature_scale", beta.map(|beta| beta as f32))?;
            }
            keys.set("rope.scaling.truncate", scaling.flag("truncate")?.unwrap_or(true))?;
        }
        other => {
            let option = scaling.any(&["rope_type", "type"])?.unwrap_or("rope_type");
            let wanted = "default, linear, llama3 or yarn, or longrope in phi3";
            return Err(scaling.wrong(option, format!("{other:?}"), wanted));
        }
    }
    keys.set("rope.scaling.type", name)?;
    keys.set("rope.scaling.factor", number("factor")?)?;
    Ok(None)
}

/// The factors of longrope. Unless the file gives their magnitude, it follows from the context and the
/// original context.
fn long_factors(options: &Options, scaling: &Options, keys: &mut Keys) -> Result<LongFactors> {
    let option = "original_max_position_embeddings";
    scaling.agree_on(option, options)?;
    let own = scaling.count(option)?;
    let original = options.required(option, options.count(option)?.or(own))?;
    let context = options.required("max_position_embeddings", options.count("max_position_embeddings")?)?;
    if original < 2 {
        return Err(options.wrong(option, original, "at least 2"));
    }
    let factor = scaling.number("factor")?.unwrap_or(f64::from(context) / f64::from(original));
    let magnitude = (1.0 + factor.max(1.0).ln() / f64::from(original).ln()).sqrt();
    let magnitude = scaling.number("attention_factor")?.unwrap_or(magnitude);
    keys.set("rope.scaling.original_context_length", original)?;
    keys.set("rope.scaling.attn_factor", magnitude as f32)?;
    let list = |option: &str| {
        let all = scaling.required(option, scaling.get(option))?.as_array();
        let all =
            all.and_then(|all| all.iter().map(|n| Some(n.as_f64()? as f32)).collect::<Option<Vec<_>>>());
        all.ok_or_else(|| scaling.wrong(option, "something else", "a list of numbers"))
    };
    Ok(LongFactors { short: list("short_factor")?, long: list("long_factor")? })
}
